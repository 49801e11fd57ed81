export { ClientCountries } from './client-countries.ts'
export { regionsByNearness } from './nearness.ts'
export { pinnedRegion } from './pinned-region.ts'
