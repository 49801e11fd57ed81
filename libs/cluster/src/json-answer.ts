/** The answer of a process to a message of another one: JSON, or why it failed, in words. */
export function jsonAnswer<Answer extends object>(value: Answer | { fault: string }): Uint8Array {
  return Buffer.from(JSON.stringify(value))
}
