// Temporal's Duration type imports StringValue from `ms`, whose own types TypeScript 7 does not find.
declare module 'ms' {
  export type StringValue = string;
}
