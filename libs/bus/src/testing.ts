export { type BusContract, busContract } from './bus-contract.ts'
