/**
 * The query of a listing page: invalid values become the default, because people edit addresses by
 * hand.
 */
import { SortField } from '@holdfast/wire'

export interface ListingQuery {
  /** 1 or more. */
  page: number
  sort: 'name' | 'size' | 'downloads' | 'createTime'
  ascending: boolean
}

/** Rows of one page: what a phone can still scroll. */
export const listingPageSize = 200

const sortFields = {
  name: SortField.NAME,
  size: SortField.SIZE,
  downloads: SortField.DOWNLOADS,
  createTime: SortField.CREATE_TIME,
}

export function listingQueryOf(query: Record<string, unknown>): ListingQuery {
  const page = typeof query.page === 'string' && /^[1-9]\d{0,6}$/.test(query.page) ? Number(query.page) : 1
  const sort = isSort(query.sort) ? query.sort : 'name'
  const ascending = query.order === 'asc' || (query.order !== 'desc' && sort === 'name')
  return { page, sort, ascending }
}

export function sortFieldOf(sort: ListingQuery['sort']): SortField {
  return sortFields[sort]
}

function isSort(value: unknown): value is ListingQuery['sort'] {
  return typeof value === 'string' && Object.hasOwn(sortFields, value)
}
