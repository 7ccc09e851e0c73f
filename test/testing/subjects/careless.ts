/** Says that its mail may be sent twice, and does not see to it. */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent } from "../../../src/index.ts"
import { Scripted } from "../../../src/provider/index.ts"
import { CrashKit } from "../../../src/testing/index.ts"

const SendMail = Tool.make("send_mail", { success: Schema.String }).annotate(Tool.Idempotent, true)
const tools = Toolkit.make(SendMail)

export default CrashKit.subject({
  agent: Agent.make("careless", { toolkit: tools }),
  input: "Send a mail.",
  layer: Layer.merge(
    tools.toLayer({ send_mail: () => Effect.as(CrashKit.happened("a mail"), "sent") }),
    Scripted.layer(Scripted.make("careless", [Scripted.call("send_mail"), Scripted.text("Sent.")]), {
      usage: { promptTokens: 100, completionTokens: 10 }
    })
  )
})
