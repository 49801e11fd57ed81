export { type PageDeps, webPages } from './pages.ts'
