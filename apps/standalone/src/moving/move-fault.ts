/** An import or an export cannot continue. The message says why, to the operator. */
export class MoveFault extends Error {
  override readonly name = 'MoveFault'
  readonly code = 'MOVE'
}
