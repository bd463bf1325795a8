import { setTimeout as delay } from 'node:timers/promises';
import { status as GrpcStatus } from '@grpc/grpc-js';
import { isGrpcServiceError, type Connection } from '@temporalio/client';
import { encodeSearchAttributeIndexedValueType as encodeType } from '@temporalio/common/lib/search-attributes.js';
import { SEARCH_ATTRIBUTES, type SearchAttributeName } from '../contracts/search-attributes.ts';
import type { Log } from './server-binary.ts';
import { HoldfastStartError } from './start-error.ts';

const NAMES = Object.keys(SEARCH_ATTRIBUTES) as SearchAttributeName[];
const CALL_TIMEOUT_MS = 10_000;
/** Twice as long as a server takes, at worst, to hand a new attribute from its namespace record to its caches. */
const USABLE_TIMEOUT_MS = 30_000;
const APPEAR_TIMEOUT_MS = 5_000;
/** Counting is limited to ten calls a second for the whole namespace. */
const POLL_MS = 300;

const REFUSALS: readonly (number | undefined)[] = [
  GrpcStatus.PERMISSION_DENIED,
  GrpcStatus.UNAUTHENTICATED,
  GrpcStatus.UNIMPLEMENTED,
];

/**
 * Registers Holdfast's search attributes where they are missing, and waits, within a bound, until they can be used.
 * Safe to call from several processes at once, and on every start.
 *
 * Throws `search-attribute-type` when one exists with another type, `search-attributes-denied` with the commands for an
 * administrator when these credentials may not register them, `search-attributes-failed` for everything else.
 */
export async function ensureSearchAttributes(
  connection: Connection,
  namespace: string,
  log: Log,
  { usableTimeoutMs = USABLE_TIMEOUT_MS }: { readonly usableTimeoutMs?: number } = {},
): Promise<void> {
  const server: Server = {
    connection,
    namespace,
    call: (fn) => connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, fn),
  };
  const until = performance.now() + usableTimeoutMs;
  const added = await register(server);
  if (added.length > 0) log.info({ namespace, added }, 'search attributes registered');

  for (;;) {
    const answer = await tryQuery(server);
    if (answer.kind !== 'not-yet') return;
    if (performance.now() > until) {
      throw failed(`Waiting ${usableTimeoutMs} ms for`, namespace, answer.error);
    }
    await delay(POLL_MS);
  }
}

/** The commands by which an administrator registers the attributes. */
export function searchAttributeCommands(
  namespace: string,
  names: readonly SearchAttributeName[] = NAMES,
): readonly string[] {
  return names.map(
    (name) =>
      `temporal operator search-attribute create --namespace ${namespace} --name ${name} --type ${SEARCH_ATTRIBUTES[name]}`,
  );
}

interface Server {
  readonly connection: Connection;
  readonly namespace: string;
  /** Bounds a call in time. */
  readonly call: <T>(fn: () => Promise<T>) => Promise<T>;
}

type EncodedType = ReturnType<typeof encodeType>;

/** Resolves to the names that were added. */
async function register(server: Server): Promise<readonly SearchAttributeName[]> {
  const listing = await list(server);
  if (listing !== 'refused') {
    checkTypes(listing, server.namespace);
    const missing = NAMES.filter((name) => !listing.has(name));
    if (missing.length === 0 || (await add(server, missing)) === 'added') return missing;
  }
  // The time-skipping test server cannot list; credentials that may not list may yet add; another process may just have
  // added some. One at a time then, since one that exists may make a server refuse all that came with it.
  const added: SearchAttributeName[] = [];
  for (const name of NAMES) {
    if ((await add(server, [name])) === 'added') added.push(name);
  }
  return added;
}

async function list({ connection, namespace, call }: Server): Promise<ReadonlyMap<string, EncodedType> | 'refused'> {
  try {
    const found = await call(() => connection.operatorService.listSearchAttributes({ namespace }));
    return new Map(Object.entries(found.customAttributes));
  } catch (error) {
    if (REFUSALS.includes(statusOf(error))) return 'refused';
    throw failed('Listing', namespace, error);
  }
}

function checkTypes(listing: ReadonlyMap<string, EncodedType>, namespace: string): void {
  const wrong = NAMES.flatMap((name) => {
    const found = listing.get(name);
    if (found === undefined || found === encoded(name)) return [];
    return [`${name} is ${TYPE_NAMES[found] ?? `type ${found}`}, must be ${SEARCH_ATTRIBUTES[name]}`];
  });
  if (wrong.length === 0) return;
  throw new HoldfastStartError(
    'search-attribute-type',
    `Search attributes of namespace ${namespace} have another type than Holdfast's: ${wrong.join('; ')}. ` +
      'Remove them (temporal operator search-attribute remove), or use another namespace.',
  );
}

async function add(server: Server, names: readonly SearchAttributeName[]): Promise<'added' | 'exists'> {
  const { connection, namespace, call } = server;
  const searchAttributes = Object.fromEntries(names.map((name) => [name, encoded(name)]));
  try {
    await call(() => connection.operatorService.addSearchAttributes({ namespace, searchAttributes }));
    return 'added';
  } catch (error) {
    const status = statusOf(error);
    if (status === GrpcStatus.ALREADY_EXISTS) return 'exists';
    if (!REFUSALS.includes(status)) {
      // The connection repeats calls: one that had taken effect may be refused the second time, as "too many" for example.
      if (await haveAppeared(server, names)) return 'exists';
      throw failed('Registering', namespace, error);
    }
    // Whoever may not register them can still use what an administrator has registered.
    if ((await tryQuery(server)).kind === 'usable') return 'exists';
    throw denied(namespace, names.length === 1 ? NAMES : names, error);
  }
}

/** Whether the names are listed by now. A listing may lag behind what was added. */
async function haveAppeared(server: Server, names: readonly SearchAttributeName[]): Promise<boolean> {
  const until = performance.now() + APPEAR_TIMEOUT_MS;
  for (;;) {
    const listing = await list(server);
    if (listing === 'refused') return false;
    if (names.every((name) => listing.has(name))) return true;
    if (performance.now() > until) return false;
    await delay(POLL_MS);
  }
}

/**
 * A server lists an attribute before it takes it: its caches follow. A query that names all of them is refused until
 * they do, by the same check that a workflow's start passes.
 */
async function tryQuery({
  connection,
  namespace,
  call,
}: Server): Promise<{ kind: 'usable' | 'unknown' } | { kind: 'not-yet'; error: unknown }> {
  const query = NAMES.map((name) => `${name} IS NULL`).join(' AND ');
  try {
    await call(() => connection.workflowService.countWorkflowExecutions({ namespace, query }));
    return { kind: 'usable' };
  } catch (error) {
    const status = statusOf(error);
    if (status === GrpcStatus.INVALID_ARGUMENT) return { kind: 'not-yet', error };
    if (REFUSALS.includes(status)) return { kind: 'unknown' }; // the time-skipping test server cannot count
    throw failed('Using', namespace, error);
  }
}

// The enum's members are declared by the protocol's types only; these are its numbers.
const TYPE_NAMES: Readonly<Record<number, string>> = {
  1: 'Text',
  2: 'Keyword',
  3: 'Int',
  4: 'Double',
  5: 'Bool',
  6: 'Datetime',
  7: 'KeywordList',
};

function encoded(name: SearchAttributeName): NonNullable<EncodedType> {
  const type = encodeType(SEARCH_ATTRIBUTES[name] === 'Keyword' ? 'KEYWORD' : 'DATETIME');
  if (type === undefined) throw new TypeError(`no encoding for ${name}`);
  return type;
}

function statusOf(error: unknown): number | undefined {
  return isGrpcServiceError(error) ? error.code : undefined;
}

function denied(namespace: string, names: readonly SearchAttributeName[], cause?: unknown): HoldfastStartError {
  return new HoldfastStartError(
    'search-attributes-denied',
    [
      `These credentials may not register search attributes in namespace ${namespace}. Somebody who may has to run (or, in Temporal Cloud, add in its console):`,
      ...searchAttributeCommands(namespace, names).map((command) => `  ${command}`),
    ].join('\n'),
    { cause },
  );
}

function failed(doing: string, namespace: string, cause: unknown): HoldfastStartError {
  return new HoldfastStartError(
    'search-attributes-failed',
    `${doing} the search attributes of namespace ${namespace} failed: ${cause instanceof Error ? cause.message : String(cause)}`,
    { cause },
  );
}
