/** A way to a server that can be cut: before a request arrives, after it was carried out, or without anybody noticing. */
import { type AddressInfo, createServer, connect as open, type Socket } from "node:net"
import * as Effect from "effect/Effect"

/**
 * What becomes of the request in which a text occurs, once. `lost`: it never arrives. `unanswered`: it is carried out,
 * and then the connection is cut. `late`: the connection is cut, and the request arrives a while later. `ignored`: it
 * never arrives and the connection stays.
 */
export type Fault = "lost" | "unanswered" | "late" | "ignored"

export interface Proxy {
  /** The URL that leads through the proxy. */
  readonly url: string
  /** The fault that strikes next. */
  readonly strike: (fault: Fault, text: string) => Effect.Effect<void>
  /** Whether it has struck. */
  readonly struck: () => boolean
  /** Cuts all connections and lets no new one through, until it is opened again. */
  readonly close: Effect.Effect<void>
  readonly open: Effect.Effect<void>
  /** Lets connections be made, and nothing through any of them. */
  readonly silence: Effect.Effect<void>
}

const lateBy = 300

/** A proxy in front of the server of this URL. */
export const make = (target: string) =>
  Effect.gen(function* () {
    const { hostname, port } = new URL(target)
    const sockets = new Set<Socket>()
    let next: { readonly fault: Fault; readonly text: string } | undefined
    let closed = false
    let silenced = false

    const server = createServer((client) => {
      if (closed) return void client.destroy()
      const upstream = open({ host: hostname, port: Number(port === "" ? 5432 : port) })
      let cutOnAnswer = false
      let silent = false
      const end = () => {
        client.destroy()
        upstream.destroy()
      }
      for (const socket of [client, upstream]) {
        sockets.add(socket)
        socket.setNoDelay(true)
        socket.on("error", () => undefined)
        socket.on("close", () => sockets.delete(socket))
      }
      upstream.on("close", () => client.destroy())
      client.on("close", () => {
        if (!silent) upstream.destroy()
      })
      upstream.on("data", (chunk) => {
        if (cutOnAnswer) return end()
        if (!silent && !silenced) client.write(chunk)
      })
      client.on("data", (chunk) => {
        if (next !== undefined && chunk.includes(next.text)) {
          const { fault } = next
          next = undefined
          switch (fault) {
            case "lost":
              return end()
            case "ignored":
              silent = true
              return
            case "late":
              silent = true
              setTimeout(() => upstream.write(chunk), lateBy)
              return void client.destroy()
            case "unanswered":
              cutOnAnswer = true
          }
        }
        if (!silent && !silenced) upstream.write(chunk)
      })
    })
    yield* Effect.acquireRelease(
      Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
      () =>
        Effect.callback<void>((resume) => {
          for (const socket of sockets) socket.destroy()
          server.close(() => resume(Effect.void))
        })
    )
    const address = server.address() as AddressInfo
    const url = new URL(target)
    url.hostname = "127.0.0.1"
    url.port = String(address.port)
    const proxy: Proxy = {
      url: url.href,
      strike: (fault, text) =>
        Effect.sync(() => {
          next = { fault, text }
        }),
      struck: () => next === undefined,
      close: Effect.sync(() => {
        closed = true
        for (const socket of sockets) socket.destroy()
      }),
      open: Effect.sync(() => {
        closed = false
      }),
      silence: Effect.sync(() => {
        silenced = true
      })
    }
    return proxy
  })
