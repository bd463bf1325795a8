/** Errors as RFC 9457 problem documents: always JSON, always a stable `code`, never a stack trace. */
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ErrorRequestHandler, RequestHandler, Response } from 'express';
import type { BaseLogger } from 'pino';
import { ZodError } from 'zod';
import { TOO_LARGE } from '../contracts/api.ts';
import type { TaskView } from '../contracts/task.ts';
import { ERROR_TITLE, HoldfastError, HTTP_STATUS, type ErrorCode } from '../contracts/errors.ts';
import { shownTo } from './auth.ts';

const PROBLEM = 'application/problem+json';
const ISSUES_MAX = 20;

/** Ends a route's list of methods: anything else is 405, and the answer names what there is. */
export function otherMethods(...allowed: string[]): RequestHandler {
  return (_request, response) => {
    response.setHeader('Allow', allowed.join(', '));
    throw new HoldfastError('method-not-allowed');
  };
}

export const routeNotFound: RequestHandler = () => {
  throw new HoldfastError('route-not-found');
};

/** The last handler. What is not one of our errors is a bug or Express's own: the first is recorded, not shown. */
export function problemHandler(log: BaseLogger): ErrorRequestHandler {
  return (error: unknown, _request, response, next) => {
    const known = holdfastErrorOf(error);
    if (known.code === 'internal') log.error({ err: known.cause ?? known }, 'request failed');
    else if (HTTP_STATUS[known.code] === 503) log.warn({ code: known.code, err: known.cause }, 'request not served');
    if (response.headersSent) next(error);
    else sendProblem(response, withShownTask(response, known));
  };
}

function sendProblem(response: Response, error: HoldfastError): void {
  response.removeHeader('ETag'); // of a representation that is not sent
  const { status, body } = problemOf(error);
  if (status === 503) response.setHeader('Retry-After', '1');
  response.status(status).type(PROBLEM);
  response.send(body);
}

/** A problem that carries its Task shows of it what the caller may see. */
function withShownTask(response: Response, error: HoldfastError): HoldfastError {
  const { task } = error.extra;
  if (task === undefined) return error;
  const extra = { ...error.extra, task: shownTo(response, task as TaskView) };
  return new HoldfastError(error.code, error.message, { extra, cause: error.cause });
}

/** The problem document of an error. */
function problemOf(error: HoldfastError): { status: number; body: string } {
  const status = HTTP_STATUS[error.code];
  const title = ERROR_TITLE[error.code];
  const body = JSON.stringify({
    type: `urn:holdfast:problem:${error.code}`,
    title,
    status,
    code: error.code,
    ...(error.message === title ? {} : { detail: error.message }),
    ...error.extra,
  });
  return { status, body };
}

/** Answers what Node refuses before there is a request: bad HTTP, headers that are too large or come too slowly. */
export function refuseClient(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET') return void socket.destroy();
  const { status, body } = problemOf(new HoldfastError(CLIENT_ERROR[error.code ?? ''] ?? 'invalid-request'));
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nContent-Type: ${PROBLEM}; charset=utf-8`;
  socket.end(`${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`);
}

const CLIENT_ERROR: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'headers-too-large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request-timeout',
};

function holdfastErrorOf(error: unknown): HoldfastError {
  if (error instanceof HoldfastError) return error;
  if (error instanceof ZodError) return errorOfIssues(error);
  const code = codeOfHttpError(error);
  return code === null
    ? new HoldfastError('internal', undefined, { cause: error })
    : new HoldfastError(code, undefined, { cause: error });
}

/** What a schema refused, field by field. Values are not repeated: they may be secrets, and large. */
function errorOfIssues(error: ZodError): HoldfastError {
  const tooLarge = error.issues.some((issue) => issue.code === 'custom' && issue.params?.['reason'] === TOO_LARGE);
  const errors = error.issues.slice(0, ISSUES_MAX).map((issue) => ({
    field: issue.path.map((part) => String(part).slice(0, 128)).join('.'),
    message: issue.code === 'unrecognized_keys' ? `unknown: ${issue.keys.join(', ').slice(0, 256)}` : issue.message,
  }));
  return new HoldfastError(tooLarge ? 'payload-too-large' : 'invalid-request', undefined, { extra: { errors } });
}

/** Errors that Express and its body parser throw carry a status. */
function codeOfHttpError(error: unknown): ErrorCode | null {
  const status = error instanceof Error && 'status' in error ? error.status : undefined;
  if (status === 413) return 'payload-too-large';
  if (status === 415) return 'unsupported-media-type';
  return typeof status === 'number' && status >= 400 && status < 500 ? 'invalid-request' : null;
}
