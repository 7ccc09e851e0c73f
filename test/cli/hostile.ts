/** What would take a terminal over, or turn a line around: sequences of ESC and of one byte, a return and a mark. */
export const text = "\u001b[2J\u001b]0;title\u0007\u009b31m\r\u0000\u007f\u202e end"
