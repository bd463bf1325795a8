/** What the facade's tests share: a server on a free port, and what every answer must be. */
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { WorkflowNotFoundError } from '@temporalio/client';
import type { Express } from 'express';
import { expect } from 'vitest';
import type { ErrorCode } from '../../src/contracts/errors.ts';
import { HTTP_STATUS } from '../../src/contracts/errors.ts';
import { listen, type Listening } from '../../src/facade/listen.ts';
import type { Harness } from '../support/harness.ts';

export async function serve(app: Express): Promise<Listening> {
  return listen(app, { host: '127.0.0.1', port: 0 });
}

/** What holds of every answer, whatever it is: JSON, not cached, and nothing told of what serves it. */
export function expectOurs({ headers, text }: { headers: IncomingHttpHeaders; text: string }): void {
  expect(headers['content-type']).toMatch(/^application\/(problem\+)?json(;|$)/);
  expect(headers['cache-control']).toBe('no-store');
  expect(headers).not.toHaveProperty('x-powered-by');
  expect(text).not.toMatch(/\bat .*\.[jt]s\b|node_modules|node:internal/);
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  code: ErrorCode;
  detail?: string;
  errors?: { field: string; message: string }[];
  [extra: string]: unknown;
}

/** A problem document of this code, with the code's status; returns it. */
export function expectProblem(
  response: { status: number; headers: IncomingHttpHeaders; text: string },
  code: ErrorCode,
  field?: string,
): Problem {
  const problem = JSON.parse(response.text) as Problem;
  expect(problem).toMatchObject({ code, status: HTTP_STATUS[code] });
  expect(response.status).toBe(HTTP_STATUS[code]);
  expectOurs(response);
  expect(response.headers['content-type']).toMatch(/^application\/problem\+json/);
  if (field !== undefined) {
    const named = (problem.errors ?? []).map((each) => `${each.field} ${each.message}`).join('\n');
    expect(named).toContain(field);
  }
  return problem;
}

/** A request whose path goes out exactly as given: no client normalizes it. */
export async function sendExactly(
  url: string,
  { method, path, headers = {}, body }: { method: string; path: string; headers?: object; body?: string },
): Promise<{ status: number; headers: IncomingHttpHeaders; text: string }> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ hostname, port, method, path, agent: false, headers: { ...headers } }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/** Whether Temporal knows the Task's workflow. */
export async function isStarted(holdfast: Harness, taskId: string): Promise<boolean> {
  try {
    await holdfast.client.workflow.getHandle(holdfast.workflowId(taskId)).describe();
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

/** The signals in the Task's history, by name and in order. */
export async function signalsOf(holdfast: Harness, taskId: string): Promise<string[]> {
  const { events } = await holdfast.client.workflow.getHandle(holdfast.workflowId(taskId)).fetchHistory();
  return (events ?? []).flatMap((event) => event.workflowExecutionSignaledEventAttributes?.signalName ?? []);
}
