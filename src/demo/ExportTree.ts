/**
 * The sources that the investigator looks into: a small program that exports orders, with a bug in it. These texts are
 * all there is of it. The tools read them, and `ExportTest` runs them as they stand.
 */

/** The text of each file, by its path, in the order in which somebody would read them. */
export const files: ReadonlyMap<string, string> = new Map(
  Object.entries({
    "README.md": `# orders-export

Writes all orders of a month as CSV, for the accountants. They count on every order being there.
The entry is src/export.js. Tests: npm test.
`,
    "test/export.test.js": String.raw`const assert = require("node:assert")
const { exportOrders } = require("../src/export.js")
const { orders } = require("../src/orders.js")

const lines = exportOrders().trimEnd().split("\n")

exports["begins with a header"] = () => assert.equal(lines[0], "order,customer,amount")

exports["writes amounts with two decimals"] = () => assert.match(lines[1], /,12\.50$/)

exports["quotes a customer with a comma in the name"] = () => assert.match(lines[3], /"Lovelace, Ada"/)

exports["writes every order"] = () => {
  const missing = orders.filter(({ id }) => !lines.some((line) => line.startsWith(id + ",")))
  const ids = missing.map(({ id }) => id).join(", ")
  assert.equal(missing.length, 0, missing.length + " of " + orders.length + " orders are missing: " + ids)
}
`,
    "src/export.js": String.raw`const { columns } = require("./columns.js")
const { toLine } = require("./csv.js")
const { pagesOf } = require("./pages.js")
const store = require("./store.js")

/** All orders as CSV: a header, then a line for each. */
exports.exportOrders = () => {
  const lines = [toLine(columns.map(({ title }) => title))]
  for (const page of pagesOf(store.count(), 3)) {
    for (const order of store.read(page)) lines.push(toLine(columns.map(({ value }) => value(order))))
  }
  return lines.join("\n") + "\n"
}
`,
    "src/columns.js": `const { decimal } = require("./money.js")

/** What stands in a line, from left to right. */
exports.columns = [
  { title: "order", value: ({ id }) => String(id) },
  { title: "customer", value: ({ customer }) => customer },
  { title: "amount", value: ({ cents }) => decimal(cents) }
]
`,
    "src/csv.js": String.raw`const quoted = (field) => (/[",\n]/.test(field) ? '"' + field.replaceAll('"', '""') + '"' : field)

/** One line of CSV, without its end. */
exports.toLine = (fields) => fields.map(quoted).join(",")
`,
    "src/money.js": `/** Cents as an amount with two decimals. */
exports.decimal = (cents) => Math.floor(cents / 100) + "." + String(cents % 100).padStart(2, "0")
`,
    "src/orders.js": `exports.orders = [
  { id: 1001, customer: "Noether", cents: 1250 },
  { id: 1002, customer: "Hopper", cents: 9900 },
  { id: 1003, customer: "Lovelace, Ada", cents: 405 },
  { id: 1004, customer: "Franklin", cents: 78000 },
  { id: 1005, customer: "Curie", cents: 1911 },
  { id: 1006, customer: "Meitner", cents: 3900 },
  { id: 1007, customer: "Mirzakhani", cents: 2014 }
]
`,
    "src/store.js": `const { orders } = require("./orders.js")

exports.count = () => orders.length

/** One page of orders. */
exports.read = ({ from, size }) => orders.slice(from, from + size)
`,
    "src/pages.js": `/** The pages in which so many rows are read: where each begins, and its size. */
exports.pagesOf = (rows, size) => {
  const pages = []
  for (let from = 0; from + size <= rows; from += size) pages.push({ from, size })
  return pages
}
`
  })
)

/** The path of its test. */
export const test = "test/export.test.js"
