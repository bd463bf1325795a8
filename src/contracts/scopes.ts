/** What a credential may do. Reading a customer's own Tasks takes any of them. */
export const SCOPES = ['schedule', 'execute', 'operate'] as const;
export type Scope = (typeof SCOPES)[number];
