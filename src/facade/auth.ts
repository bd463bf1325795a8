/** Who is calling. The customer comes from the credential only, never from a path or a body. */
import type { RequestHandler, Response } from 'express';

const SCOPES = ['schedule', 'execute', 'operate'] as const;
export type Scope = (typeof SCOPES)[number];

export interface Caller {
  customerId: string;
  scopes: ReadonlySet<Scope>;
}

/** With no keys configured there is one caller with every scope; the configuration then allows loopback only. */
const LOCAL: Caller = { customerId: 'local', scopes: new Set(SCOPES) };

const callers = new WeakMap<Response, Caller>();

export const authenticate: RequestHandler = (_request, response, next) => {
  callers.set(response, LOCAL);
  next();
};

/** The caller of a request that `authenticate` let pass. */
export function callerOf(response: Response): Caller {
  const caller = callers.get(response);
  if (caller === undefined) throw new Error('a route without authentication');
  return caller;
}
