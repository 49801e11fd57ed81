export { Placement } from './placement.ts'
