/**
 * The OpenAPI document: every route, what it takes and all that it can answer. Requests are the schemas that the routes
 * parse with, answers are the schemas that the tests hold every answer against, so that the document cannot tell of
 * another API than the one that is served. The tables are complete by construction.
 */
import type { ZodType } from 'zod';
import { z } from 'zod';
import {
  createDocument,
  type oas31,
  type ZodOpenApiOperationObject,
  type ZodOpenApiParameters,
  type ZodOpenApiPathsObject,
  type ZodOpenApiRequestBodyObject,
  type ZodOpenApiResponseObject,
} from 'zod-openapi';
import {
  cancelBody,
  claimBody,
  emptyBody,
  listQuery,
  messageBody,
  messagesQuery,
  postHeaders,
  readMarkBody,
  resultBody,
  scheduleBody,
  taskParams,
} from '../contracts/api.ts';
import {
  claimedTaskAnswer,
  describedTaskAnswer,
  evidenceAnswer,
  liveAnswer,
  mailboxAnswer,
  messagesAnswer,
  messageSentAnswer,
  PROBLEM_ANSWERS,
  readyAnswer,
  stopCheckAnswer,
  taskAnswer,
  taskPageAnswer,
} from '../contracts/api-answers.ts';
import { ERROR_TITLE, HTTP_STATUS, type ErrorCode } from '../contracts/errors.ts';
import type { Scope } from '../contracts/scopes.ts';

type Method = 'get' | 'post';

/** Every route by its operation's name. HEAD is answered wherever GET is. */
export const ROUTES = {
  scheduleTask: { method: 'post', path: '/v1/tasks' },
  listTasks: { method: 'get', path: '/v1/tasks' },
  getTask: { method: 'get', path: '/v1/tasks/{taskId}' },
  getEvidence: { method: 'get', path: '/v1/tasks/{taskId}/evidence' },
  checkStop: { method: 'get', path: '/v1/tasks/{taskId}/stop' },
  claimTask: { method: 'post', path: '/v1/tasks/{taskId}/claim' },
  recordResult: { method: 'post', path: '/v1/tasks/{taskId}/result' },
  cancelTask: { method: 'post', path: '/v1/tasks/{taskId}/cancel' },
  redeliverTask: { method: 'post', path: '/v1/tasks/{taskId}/redeliver' },
  sendMessage: { method: 'post', path: '/v1/tasks/{taskId}/messages' },
  readMessages: { method: 'get', path: '/v1/tasks/{taskId}/messages' },
  markMessagesRead: { method: 'post', path: '/v1/tasks/{taskId}/messages/read' },
  isLive: { method: 'get', path: '/livez' },
  isReady: { method: 'get', path: '/readyz' },
  getOpenApi: { method: 'get', path: '/openapi.json' },
  showDocs: { method: 'get', path: '/docs' },
  getDocsAsset: { method: 'get', path: '/docs/{asset}' },
} as const satisfies Record<string, { method: Method; path: `/${string}` }>;

export type RouteName = keyof typeof ROUTES;

/** Of any route: the two that Node gives before there is a request, another method, and a bug. */
const ANYWHERE = ['method-not-allowed', 'request-timeout', 'headers-too-large', 'internal'] as const;
const JSON_ROUTE = ['not-acceptable', ...ANYWHERE] as const;
/** Bodies are read before routes are looked for, so that a GET with one is refused as a POST is. */
const V1 = [
  'invalid-request',
  'unauthenticated',
  'payload-too-large',
  'unsupported-media-type',
  ...JSON_ROUTE,
] as const satisfies readonly ErrorCode[];
const READ = ['task-not-found', 'temporal-unavailable', ...V1] as const;
const COMMAND = [
  'invalid-json',
  'task-not-found',
  'task-terminal',
  'idempotency-key-reused',
  'too-many-undecided',
  'verdict-unavailable',
  'temporal-unavailable',
  'unsupported-by-worker',
  ...V1,
] as const satisfies readonly ErrorCode[];

/** Every code that a route can answer with. */
export const ROUTE_ERRORS = {
  scheduleTask: [
    'invalid-json',
    'forbidden',
    'idempotency-key-reused',
    'parent-not-found',
    'parent-terminal',
    'lineage-too-deep',
    'temporal-unavailable',
    ...V1,
  ],
  listTasks: ['temporal-unavailable', ...V1],
  getTask: READ,
  getEvidence: ['forbidden', 'worker-unavailable', ...READ],
  checkStop: V1,
  claimTask: ['forbidden', 'not-released', 'token-mismatch', 'token-consumed', 'claim-expired', ...COMMAND],
  recordResult: ['forbidden', 'claim-mismatch', 'unread-messages', ...COMMAND],
  cancelTask: ['forbidden', ...COMMAND],
  redeliverTask: ['forbidden', 'not-released', 'task-running', ...COMMAND],
  sendMessage: ['mailbox-full', ...COMMAND],
  readMessages: ['unsupported-by-worker', ...READ],
  markMessagesRead: ['forbidden', 'read-mark-beyond-end', ...COMMAND],
  isLive: JSON_ROUTE,
  isReady: ['temporal-unavailable', ...JSON_ROUTE],
  getOpenApi: JSON_ROUTE,
  showDocs: ANYWHERE,
  getDocsAsset: ['invalid-request', 'route-not-found', ...ANYWHERE],
} as const satisfies Record<RouteName, readonly ErrorCode[]>;

/** The scopes of which a key needs one; none named: any key in force will do. Null: open to everybody. */
export const ROUTE_SCOPES = {
  scheduleTask: ['schedule'],
  listTasks: [],
  getTask: [],
  getEvidence: ['execute', 'operate'],
  checkStop: [],
  claimTask: ['execute'],
  recordResult: ['execute', 'operate'],
  cancelTask: ['schedule', 'operate'],
  redeliverTask: ['operate'],
  sendMessage: [],
  readMessages: [],
  markMessagesRead: ['execute', 'operate'],
  isLive: null,
  isReady: null,
  getOpenApi: null,
  showDocs: null,
  getDocsAsset: null,
} as const satisfies Record<RouteName, readonly Scope[] | null>;

interface Operation {
  tag: 'Tasks' | 'Execution' | 'Mailbox' | 'Service';
  summary: string;
  description?: string;
  params?: ZodOpenApiParameters;
  /** Whether the read takes `Prefer: wait=N`, and `If-None-Match` beside it. */
  waits?: 'for a change' | 'for a message';
  body?: { schema: ZodType; required: boolean };
  answers: Record<number, Answer>;
}

interface Answer {
  description: string;
  schema?: ZodType;
  /** Left out: JSON. */
  mediaTypes?: string[];
  headers?: oas31.HeadersObject;
}

const ofTask = { path: taskParams };
const header = (description: string, required = true): oas31.HeaderObject => ({
  description,
  required,
  schema: { type: 'string' },
});
const etag = { ETag: header('Of this representation: two answers with one tag are the same bytes.') };
const location = { Location: header("The Task's own path.") };
const replayed = (required: boolean): oas31.HeadersObject => ({
  'Idempotent-Replayed': {
    ...header('The answer is the one of an earlier request.', required),
    schema: { const: 'true' },
  },
});

const OPERATIONS: Record<RouteName, Operation> = {
  scheduleTask: {
    tag: 'Tasks',
    summary: 'Schedule a Task',
    description:
      'Durable before it answers, and before anything is announced. The identity is `taskId` where given, else ' +
      'derived from the idempotency key.',
    body: { schema: scheduleBody, required: true },
    answers: {
      200: {
        description: 'An equal request scheduled it before: the Task as it stands.',
        schema: z.union([taskAnswer, describedTaskAnswer]),
        headers: { ...location, ...replayed(true) },
      },
      201: { description: 'The Task as accepted.', schema: taskAnswer, headers: location },
    },
  },
  listTasks: {
    tag: 'Tasks',
    summary: 'List Tasks',
    description: 'Every filter given must match. Eventually consistent. A page token belongs to its filter.',
    params: { query: listQuery },
    answers: { 200: { description: 'One page.', schema: taskPageAnswer } },
  },
  getTask: {
    tag: 'Tasks',
    summary: 'Read a Task, or wait until it changes',
    params: ofTask,
    waits: 'for a change',
    answers: {
      200: {
        description: 'The Task as it stands; without a worker what Temporal tells of it.',
        schema: z.union([taskAnswer, describedTaskAnswer]),
        headers: etag,
      },
      304: { description: 'It is still the one of `If-None-Match`.', mediaTypes: [], headers: etag },
    },
  },
  getEvidence: {
    tag: 'Tasks',
    summary: 'What can be said of a Task, each claim with its proof',
    params: ofTask,
    answers: { 200: { description: 'The claims, in layers.', schema: evidenceAnswer } },
  },
  checkStop: {
    tag: 'Execution',
    summary: 'Whether an executor should stop',
    description: 'From the Task and all its ancestors, within 2 s. A missing Task is an answer, not an error.',
    params: ofTask,
    answers: { 200: { description: 'Stop, or go on.', schema: stopCheckAnswer } },
  },
  claimTask: {
    tag: 'Execution',
    summary: 'Claim a Task with its claim token',
    params: ofTask,
    body: { schema: claimBody, required: true },
    answers: { 200: { description: 'The Task is running, and is yours.', schema: claimedTaskAnswer } },
  },
  recordResult: {
    tag: 'Execution',
    summary: 'Record the result of a Task',
    description: 'Without `claimId` the scope operate is needed.',
    params: ofTask,
    body: { schema: resultBody, required: true },
    answers: { 200: { description: 'The Task has ended.', schema: taskAnswer } },
  },
  cancelTask: {
    tag: 'Tasks',
    summary: 'Cancel a Task',
    description: 'A Task that was canceled before answers as one that is.',
    params: ofTask,
    body: { schema: cancelBody, required: false },
    answers: { 200: { description: 'The Task is canceled.', schema: taskAnswer } },
  },
  redeliverTask: {
    tag: 'Execution',
    summary: 'Announce a Task again',
    description: 'The delivery starts over, with the same claim token.',
    params: ofTask,
    body: { schema: emptyBody, required: false },
    answers: { 202: { description: 'A publish is owed and durable.', schema: taskAnswer } },
  },
  sendMessage: {
    tag: 'Mailbox',
    summary: 'Send a message to a Task',
    params: ofTask,
    body: { schema: messageBody, required: true },
    answers: {
      201: { description: 'The message is in the mailbox.', schema: messageSentAnswer, headers: replayed(false) },
    },
  },
  readMessages: {
    tag: 'Mailbox',
    summary: 'Read messages, or wait for one',
    params: { ...ofTask, query: messagesQuery },
    waits: 'for a message',
    answers: { 200: { description: 'One page of unread messages.', schema: messagesAnswer } },
  },
  markMessagesRead: {
    tag: 'Mailbox',
    summary: 'Mark messages as read',
    description: 'Frees their room in the mailbox. A mark behind the present one changes nothing.',
    params: ofTask,
    body: { schema: readMarkBody, required: true },
    answers: { 200: { description: 'The mailbox as it stands.', schema: mailboxAnswer } },
  },
  isLive: {
    tag: 'Service',
    summary: 'Whether this process answers',
    answers: { 200: { description: 'It does.', schema: liveAnswer } },
  },
  isReady: {
    tag: 'Service',
    summary: 'Whether Temporal answers, asked anew each time',
    answers: { 200: { description: 'It does.', schema: readyAnswer } },
  },
  getOpenApi: {
    tag: 'Service',
    summary: 'This document',
    answers: { 200: { description: 'OpenAPI 3.1.', schema: z.looseObject({ openapi: z.literal('3.1.1') }) } },
  },
  showDocs: {
    tag: 'Service',
    summary: 'This document, to be read in a browser',
    answers: { 200: { description: 'A page that loads nothing from elsewhere.', mediaTypes: ['text/html'] } },
  },
  getDocsAsset: {
    tag: 'Service',
    summary: 'What the page is made of',
    params: { path: z.object({ asset: z.string() }) },
    answers: {
      200: {
        description: 'A script, a style sheet or an icon.',
        mediaTypes: ['text/javascript', 'text/css', 'image/png'],
      },
    },
  },
};

/** Answers of Node itself, before there is a request to give an id. */
const WITHOUT_REQUEST_ID: readonly ErrorCode[] = ['request-timeout', 'headers-too-large'];

let built: ReturnType<typeof createDocument> | undefined;

/** The document as plain JSON; made when it is first asked for. */
export function openApiDocument(): ReturnType<typeof createDocument> {
  built ??= JSON.parse(JSON.stringify(documentOfTables())) as ReturnType<typeof createDocument>;
  return built;
}

function documentOfTables(): ReturnType<typeof createDocument> {
  return createDocument({
    openapi: '3.1.1',
    info: {
      title: 'Holdfast',
      version: '1',
      description:
        'A durable Task scheduler. Errors are RFC 9457 problem documents with a stable `code`. Every GET is answered ' +
        'to HEAD too, without its body.',
    },
    tags: [{ name: 'Tasks' }, { name: 'Execution' }, { name: 'Mailbox' }, { name: 'Service' }],
    components: {
      securitySchemes: {
        apiKey: {
          type: 'http',
          scheme: 'bearer',
          description: 'An API key. Not needed where none are configured: the facade then listens on loopback only.',
        },
      },
    },
    paths: paths(),
  });
}

function paths(): ZodOpenApiPathsObject {
  const found: ZodOpenApiPathsObject = {};
  for (const name of Object.keys(ROUTES) as RouteName[]) {
    const { method, path } = ROUTES[name];
    found[path] = { ...found[path], [method]: operation(name) };
  }
  return found;
}

function operation(name: RouteName): ZodOpenApiOperationObject {
  const { tag, summary, description, params, waits, body, answers } = OPERATIONS[name];
  const isPost = ROUTES[name].method === 'post';
  const scopes: readonly Scope[] | null = ROUTE_SCOPES[name];
  const needs = scopes?.length ? `Takes a key with the scope ${scopes.join(' or ')}.` : '';
  const text = [description, needs].filter(Boolean).join(' ');
  return {
    operationId: name,
    tags: [tag],
    summary,
    ...(text === '' ? {} : { description: text }),
    security: scopes === null ? [] : [{ apiKey: [...scopes] }, {}],
    requestParams: { ...params, ...(isPost ? { header: postHeaders } : {}) },
    parameters: [
      ...(waits === 'for a change'
        ? [headerParameter('If-None-Match', 'ETags of what the caller knows: answered with 304 while it is so.')]
        : []),
      ...(waits === undefined
        ? []
        : [headerParameter('Prefer', `\`wait=N\`: how many seconds to wait ${waits}, 30 at most.`)]),
      headerParameter('X-Request-Id', 'Taken when it is 1 to 128 of `A-Z a-z 0-9 . _ -`.'),
    ],
    ...(body === undefined ? {} : { requestBody: requestBody(body) }),
    responses: Object.fromEntries([
      ...Object.entries(answers).map(([status, answer]) => [status, success(name, answer)]),
      ...problems(name),
    ]) as NonNullable<ZodOpenApiOperationObject['responses']>,
  };
}

function headerParameter(name: string, description: string): oas31.ParameterObject {
  return { name, in: 'header', description, schema: { type: 'string' } };
}

function requestBody({ schema, required }: { schema: ZodType; required: boolean }): ZodOpenApiRequestBodyObject {
  return { required, content: { 'application/json': { schema } } };
}

/** Headers that every answer of a route may carry; `certain` where it is sure that the route itself was reached. */
function commonHeaders(name: RouteName, { certain }: { certain: boolean }): oas31.HeadersObject {
  return {
    'X-Request-Id': header('The id of the request, in the log too.', certain),
    ...(ROUTES[name].method === 'post'
      ? { 'Idempotency-Key': header('The key in force: a fresh one where none was sent.', certain) }
      : {}),
    ...(OPERATIONS[name].waits === undefined ? {} : { 'Preference-Applied': header('The wait applied.', false) }),
  };
}

function success(name: RouteName, answer: Answer): ZodOpenApiResponseObject {
  const { description, schema, mediaTypes = ['application/json'], headers } = answer;
  const content = mediaTypes.map((mediaType) => [mediaType, schema === undefined ? {} : { schema }] as const);
  return {
    description,
    headers: { ...commonHeaders(name, { certain: true }), ...headers },
    ...(content.length === 0 ? {} : { content: Object.fromEntries(content) }),
  };
}

/** One answer for each status among the codes of a route. */
function problems(name: RouteName): [string, ZodOpenApiResponseObject][] {
  const codes: readonly ErrorCode[] = ROUTE_ERRORS[name];
  const statuses = [...new Set(codes.map((code) => HTTP_STATUS[code]))];
  return statuses.map((status) => {
    const group = codes.filter((code) => HTTP_STATUS[code] === status);
    const [first, ...rest] = group.map((code) => PROBLEM_ANSWERS[code]);
    const schema = first !== undefined && rest.length > 0 ? z.discriminatedUnion('code', [first, ...rest]) : first;
    const hasRequestId = !group.some((code) => WITHOUT_REQUEST_ID.includes(code));
    return [
      String(status),
      {
        description: group.map((code) => `\`${code}\`: ${ERROR_TITLE[code]}.`).join(' '),
        headers: {
          ...commonHeaders(name, { certain: false }),
          'X-Request-Id': header('The id of the request, in the log too.', hasRequestId),
          ...(status === 401 ? { 'WWW-Authenticate': header('`Bearer`.') } : {}),
          ...(status === 405 ? { Allow: header('The methods that the route takes.') } : {}),
          ...(status === 503 ? { 'Retry-After': header('Seconds.') } : {}),
        },
        content: { 'application/problem+json': { schema: schema as ZodType } },
      },
    ];
  });
}
