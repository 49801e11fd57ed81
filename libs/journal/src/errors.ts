import { CodedFault, type FaultCategory } from '@holdfast/kernel'

export type JournalFaultCode = 'FENCED' | 'UNKNOWN' | 'UNAVAILABLE' | 'CORRUPT' | 'TOO_LARGE' | 'CLOSED'

const categories: Record<JournalFaultCode, FaultCategory> = {
  FENCED: 'fenced',
  UNKNOWN: 'unknown',
  UNAVAILABLE: 'unavailable',
  CORRUPT: 'corrupt',
  TOO_LARGE: 'invalid',
  CLOSED: 'unavailable',
}

export class JournalFault extends CodedFault<JournalFaultCode> {
  override readonly name = 'JournalFault'

  constructor(code: JournalFaultCode, message: string, options?: ErrorOptions) {
    super(code, message, { ...options, category: categories[code] })
  }
}

export function corruptJournal(account: string, what: string): JournalFault {
  return new JournalFault('CORRUPT', `journal of ${account}: ${what}`)
}
