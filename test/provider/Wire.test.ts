import { describe, expect, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Wire from "../../src/provider/Wire.ts"
import { Files, toolResult, user } from "./support.ts"

const call = (params: unknown, options?: Prompt.ProviderOptions) =>
  Prompt.makePart("tool-call", {
    id: "c1",
    name: "read_file",
    params,
    providerExecuted: false,
    ...(options ? { options } : undefined)
  })
const text = (text: string) => Prompt.makePart("text", { text })
const assistant = (content: ReadonlyArray<Prompt.AssistantMessagePart>) =>
  Prompt.makeMessage("assistant", { content })
const json = (...messages: ReadonlyArray<Prompt.Message>) => Wire.listJson(Wire.messages(messages))

describe("Wire", () => {
  it("writes the keys in the order that the counting rule names", () => {
    expect(
      json(
        Prompt.makeMessage("system", { content: "S" }),
        Prompt.makeMessage("user", { content: [text("a"), text("b")] }),
        assistant([call({ path: "x" })]),
        toolResult("c1", "read_file", 'verbatim "text"'),
        toolResult("c1", "read_file", ["a", 1]),
        assistant([text("Hello"), call({})]),
        assistant([text("Bye")])
      )
    ).toBe(
      "[" +
        [
          '{"role":"system","content":"S"}',
          '{"role":"user","content":"ab"}',
          '{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read_file","arguments":"{\\"path\\":\\"x\\"}"}}]}',
          '{"role":"tool","tool_call_id":"c1","name":"read_file","content":"verbatim \\"text\\""}',
          '{"role":"tool","tool_call_id":"c1","name":"read_file","content":"[\\"a\\",1]"}',
          '{"role":"assistant","content":"Hello","tool_calls":[{"id":"c1","type":"function","function":{"name":"read_file","arguments":"{}"}}]}',
          '{"role":"assistant","content":"Bye"}'
        ].join(",") +
        "]"
    )
    const tools = Wire.tools(Object.values(Files.tools))
    expect(tools.map((tool) => Object.keys(tool.function))).toEqual([
      ["name", "description", "parameters"],
      ["name", "description", "parameters"]
    ])
    expect(Wire.listJson(tools)).toBe(JSON.stringify(tools))
  })

  it("gives each result of a tool message its own wire message", () => {
    const message = Prompt.makeMessage("tool", {
      content: ["c1", "c2"].map((id) =>
        Prompt.makePart("tool-result", {
          id,
          name: "t",
          result: id,
          isFailure: false,
          providerExecuted: false
        })
      )
    })
    expect(Wire.messages([message]).map((wire) => wire.content)).toEqual(["c1", "c2"])
  })

  it.each([
    ['{"path": ', '{"arguments":"{\\"path\\": "}'],
    ['{"path":"x"}', '{"path":"x"}'],
    ["", "{}"],
    [undefined, "{}"],
    [null, "{}"],
    [[1], '{"arguments":[1]}'],
    [{ a: 1 }, '{"a":1}']
  ])("sends the arguments %j back as a JSON object", (params, expected) => {
    expect(Wire.argumentsText(params)).toBe(expected)
  })

  it("keeps reasoning to itself unless it is marked for replay", () => {
    const reasoning = (options: Prompt.ProviderOptions) =>
      Prompt.makePart("reasoning", { text: "hm", options })
    expect(json(assistant([reasoning({}), text("A")]))).toBe('[{"role":"assistant","content":"A"}]')
    expect(json(assistant([reasoning(Wire.replay({ reasoning_content: "hm" })), text("A")]))).toBe(
      '[{"role":"assistant","content":"A","reasoning_content":"hm"}]'
    )
    expect(json(assistant([call({}, Wire.replay({ extra_content: { sign: 1 } }))]))).toContain(
      '"extra_content":{"sign":1}'
    )
  })

  it("leaves out a reply of which nothing would be sent", () => {
    const reasoning = Prompt.makePart("reasoning", { text: "hm" })
    const own = Prompt.makePart("tool-call", { id: "p", name: "web", params: {}, providerExecuted: true })
    for (const content of [[], [reasoning], [own, reasoning], [text("")]]) {
      expect(json(assistant(content))).toBe("[]")
    }
    const replayed = { text: "hm", options: Wire.replay({ reasoning_content: "hm" }) }
    expect(json(assistant([Prompt.makePart("reasoning", replayed)]))).toBe(
      '[{"role":"assistant","content":"","reasoning_content":"hm"}]'
    )
  })

  it("leaves out what a provider ran itself", () => {
    const own = Prompt.makePart("tool-call", { id: "p", name: "web", params: {}, providerExecuted: true })
    expect(json(assistant([own, text("A")]))).toBe('[{"role":"assistant","content":"A"}]')
  })

  it("sends images as data or address", () => {
    const file = (mediaType: string, data: string | Uint8Array | URL) =>
      Prompt.makePart("file", { mediaType, data })
    const message = Prompt.makeMessage("user", {
      content: [
        text("Look"),
        file("image/png", new Uint8Array([1, 2])),
        file("image/png", "AQI="),
        file("image/png", new URL("https://example.com/a.png")),
        file("text/plain", new TextEncoder().encode("hi")),
        file("audio/wav", "AQI="),
        file("application/pdf", "AQI=")
      ]
    })
    expect(Wire.messages([message])[0]?.content).toEqual([
      { type: "text", text: "Look" },
      { type: "image_url", image_url: { url: "data:image/png;base64,AQI=" } },
      { type: "image_url", image_url: { url: "data:image/png;base64,AQI=" } },
      { type: "image_url", image_url: { url: "https://example.com/a.png" } },
      { type: "text", text: "hi" },
      { type: "input_audio", input_audio: { data: "AQI=", format: "wav" } },
      { type: "file", file: { file_data: "data:application/pdf;base64,AQI=" } }
    ])
  })

  it("encodes a message once", () => {
    const message = user("hi")
    expect(Wire.messages([message])[0]).toBe(Wire.messages([message])[0])
  })
})
