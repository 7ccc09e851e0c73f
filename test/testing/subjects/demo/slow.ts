import { CrashKit } from "../../../../src/testing/index.ts"
import { demo } from "../../demos.ts"

export default CrashKit.subject(demo("slow").mortal)
