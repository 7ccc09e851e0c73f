import type { RunEvent } from "checkrein"
import { Stream } from "effect"
import { HttpServerResponse } from "effect/http"

// A comment at once, since a response begins with its first bytes, and then so often that no proxy gives it up.
const alive = Stream.map(Stream.tick("15 seconds"), () => ":\n\n")

// A response whose stream fails is cut off with what it had not sent yet: what failed is its last event instead.
export const sse = <E extends Error>(events: Stream.Stream<RunEvent.LiveEvent, E>) =>
  HttpServerResponse.stream(
    events.pipe(
      Stream.map(
        (event) => `${"seq" in event ? `id: ${event.seq}\n` : ""}data: ${JSON.stringify(event)}\n\n`
      ),
      Stream.catch(({ message }) => Stream.succeed(`event: ended\ndata: ${JSON.stringify(message)}\n\n`)),
      Stream.merge(alive, { haltStrategy: "left" }),
      Stream.encodeText
    ),
    { contentType: "text/event-stream" }
  )
