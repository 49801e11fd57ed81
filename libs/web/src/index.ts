export type { PageDeps } from './page-deps.ts'
export { webPages } from './pages.ts'
