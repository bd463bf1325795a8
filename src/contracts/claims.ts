/** The claims that may be made of a Task, layer by layer; docs/claims.md says what proves each. */
export const CLAIMS = [
  'request-accepted',
  'made-available',
  'claim-accepted',
  'success-reported',
  'revision-exists',
  'pull-request-has-patch',
  'tests-passed',
  'issue-resolved',
] as const;
export type ClaimName = (typeof CLAIMS)[number];
