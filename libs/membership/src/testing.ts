export { type MemberGroup, type MembershipContract, membershipContract } from './membership-contract.ts'
