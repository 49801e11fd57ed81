import { Fault, type FaultCategory } from '@holdfast/kernel'

export type MailFaultCode = 'REFUSED' | 'UNAVAILABLE'

const categories: Record<MailFaultCode, FaultCategory> = { REFUSED: 'invalid', UNAVAILABLE: 'unavailable' }

/** A mail that was not accepted. Its message never holds the mail's text. */
export class MailFault extends Fault {
  override readonly name = 'MailFault'
  readonly code: MailFaultCode
  readonly category: FaultCategory

  constructor(code: MailFaultCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
    this.category = categories[code]
  }
}
