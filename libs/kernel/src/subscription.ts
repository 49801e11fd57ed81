/** The handle of a subscription. */
export interface Subscription {
  close(): void
}
