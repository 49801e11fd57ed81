export { type Joining, type MembershipContract, membershipContract } from './membership-contract.ts'
