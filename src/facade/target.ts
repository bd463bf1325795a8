import type { Request, Response } from 'express';
import { taskParams } from '../contracts/api.ts';
import type { Scope } from '../contracts/scopes.ts';
import type { CommandTarget } from '../scheduler/scheduler.ts';
import { callerOf } from './auth.ts';
import { keyOf } from './idempotency.ts';

export function taskIdOf(request: Request): string {
  return taskParams.parse(request.params).taskId;
}

/** The Task that a command is for, as its caller's, and the key in force; for callers with one of the scopes. */
export function targetOf(request: Request, response: Response, ...anyOf: Scope[]): CommandTarget {
  return { customerId: callerOf(response, ...anyOf).customerId, taskId: taskIdOf(request), ...keyOf(response) };
}
