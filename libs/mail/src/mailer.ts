/** The mails of the service: one kind, the sign-in link. */
export interface Mailer {
  /**
   * Sends a sign-in link, at least once. A repeat after a lost answer carries the same id, so that
   * the recipient can merge them.
   *
   * Resolves when the relay accepted the mail, or its file is durable. Addresses that reach no
   * inbox (guests') are skipped silently.
   *
   * @throws MailFault `REFUSED`: this mail will never be accepted, do not repeat. `UNAVAILABLE`:
   *   repeat later.
   */
  sendSignIn(mail: SignInMessage): Promise<void>
  close(): Promise<void>
}

export interface SignInMessage {
  /** Equal for repeats of one mail: 1 to 100 of [A-Za-z0-9-]. */
  id: string
  /** One address, without name. */
  to: string
  /** Opens the account: never log it. */
  link: string
}
