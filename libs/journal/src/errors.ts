import { Fault, type FaultCategory } from '@holdfast/kernel'

export type JournalFaultCode = 'FENCED' | 'UNKNOWN' | 'UNAVAILABLE' | 'CORRUPT' | 'TOO_LARGE' | 'CLOSED'

const categories: Record<JournalFaultCode, FaultCategory> = {
  FENCED: 'fenced',
  UNKNOWN: 'unknown',
  UNAVAILABLE: 'unavailable',
  CORRUPT: 'corrupt',
  TOO_LARGE: 'invalid',
  CLOSED: 'unavailable',
}

export class JournalFault extends Fault {
  override readonly name = 'JournalFault'
  readonly code: JournalFaultCode
  readonly category: FaultCategory

  constructor(code: JournalFaultCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
    this.category = categories[code]
  }
}
