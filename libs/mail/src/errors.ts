import { CodedFault, type FaultCategory } from '@holdfast/kernel'

export type MailFaultCode = 'REFUSED' | 'UNAVAILABLE'

const categories: Record<MailFaultCode, FaultCategory> = { REFUSED: 'invalid', UNAVAILABLE: 'unavailable' }

/** A mail that was not accepted. Its message never holds the mail's text. */
export class MailFault extends CodedFault<MailFaultCode> {
  override readonly name = 'MailFault'

  constructor(code: MailFaultCode, message: string, options?: ErrorOptions) {
    super(code, message, { ...options, category: categories[code] })
  }
}
