export { type PageParts, webPages } from './pages.ts'
