/** What an account may do and hold. */
export const tiers = ['guest', 'standard', 'premium'] as const
export type Tier = (typeof tiers)[number]

export function isTier(text: string): text is Tier {
  return (tiers as readonly string[]).includes(text)
}
