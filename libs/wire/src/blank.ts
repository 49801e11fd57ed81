/** A message whose fields all have their defaults. */
export function blank<Message>(type: { decode: (bytes: Uint8Array) => Message }): Message {
  return type.decode(new Uint8Array(0))
}
