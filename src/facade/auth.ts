/** Who is calling, and what it may do. The customer comes from the credential only, never from a path or a body. */
import type { RequestHandler, Response } from 'express';
import { HoldfastError } from '../contracts/errors.ts';
import { SCOPES, type Scope } from '../contracts/scopes.ts';
import type { TaskView } from '../contracts/task.ts';
import type { Caller, KeyRing } from '../credentials/key-ring.ts';
import type { DescribedTask } from '../scheduler/scheduler.ts';

/** With no keys configured there is one caller with every scope; the configuration then allows loopback only. */
const LOCAL: Caller = { customerId: 'local', scopes: new Set(SCOPES), keyId: null };

const callers = new WeakMap<Response, Caller>();

/** Lets nobody pass without a key in force. One answer for whatever is wrong with it: why is not for guessers. */
export function authenticate(keyRing: KeyRing | null): RequestHandler {
  return async (request, response, next) => {
    const caller = keyRing === null ? LOCAL : await keyRing.authenticate(bearerOf(request.get('Authorization')));
    if (caller === null) {
      response.setHeader('WWW-Authenticate', 'Bearer');
      throw new HoldfastError('unauthenticated');
    }
    callers.set(response, caller);
    next();
  };
}

/** The caller of a request that `authenticate` let pass, if it has one of these scopes; any will do where none is named. */
export function callerOf(response: Response, ...anyOf: Scope[]): Caller {
  const caller = callers.get(response);
  if (caller === undefined) throw new Error('a route without authentication');
  if (anyOf.length === 0 || anyOf.some((scope) => caller.scopes.has(scope))) return caller;
  throw new HoldfastError('forbidden', `this takes a key with the scope ${anyOf.join(' or ')}`);
}

/** A Task as its caller may see it: claim tokens are for those who may claim or repair. */
export function shownTo<Shown extends TaskView | DescribedTask>(response: Response, task: Shown): Shown {
  const scopes = callers.get(response)?.scopes;
  if ('asOf' in task || scopes?.has('execute') === true || scopes?.has('operate') === true) return task;
  const claim = task.claim === null ? null : { ...task.claim, deliveryEventId: null };
  return { ...task, delivery: { ...task.delivery, eventId: null }, claim };
}

function bearerOf(header: string | undefined): string {
  return /^Bearer +(\S{1,256})$/i.exec(header ?? '')?.[1] ?? '';
}
