/** What a listener gets for its subscription. */
export interface Subscription {
  close(): void
}
