/** Which contents have an attribute, for commands and for repairs. */
import type { AttributeSet } from '@holdfast/wire'

type AttributeName = NonNullable<AttributeSet['attribute']>['$case']

export const attributesOf: Record<AttributeName, 'all' | 'folders'> = {
  name: 'all',
  tags: 'all',
  modTime: 'all',
  code: 'all',
  description: 'folders',
  expiry: 'folders',
  isPublic: 'folders',
  password: 'folders',
}
