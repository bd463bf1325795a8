/**
 * The webhook transport: one POST of the CloudEvent, signed after Standard Webhooks, to a target that only the
 * configuration names. What it keeps:
 * W1: no connection to an address that was not judged at the send that uses it, or at an earlier one of the same route.
 *     The name is looked up here, once a send; the connection is made to what was judged, never looked up again.
 * W2: an answer's status decides, nothing else of it; redirects are not followed, bodies are not kept.
 * W3: every wait ends: by the caller's signal, and by bounds of its own.
 */
import { lookup as lookUpByName } from 'node:dns/promises';
import type { LookupAddress } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { errors, Pool, type Dispatcher } from 'undici';
import type { TaskReadyCloudEvent } from '../contracts/task-ready.ts';
import { addressKindOf, literalAddressOf } from './address.ts';
import { withDeadline } from './deadline.ts';
import { PublishError, type PublishErrorCode, type ReadyTransport } from './port.ts';
import { parseRetryAfter } from './retry-after.ts';

/** All addresses of a host name. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>;

export interface WebhookOptions {
  /** http or https, without credentials. */
  readonly url: string;
  /** Standard Webhooks secret, `whsec_` and base64; null: unsigned. */
  readonly secret: string | null;
  /** Whether loopback and private addresses may be reached. */
  readonly allowPrivate: boolean;
  /** Bound of one publish, should the caller's signal come later. */
  readonly timeoutMs?: number;
  readonly connectTimeoutMs?: number;
  readonly connectionsMax?: number;
  readonly resolve?: Resolve;
  /** Milliseconds since the epoch, for the signature's timestamp and dates in `Retry-After`. */
  readonly now?: () => number;
}

const TIMEOUT_MS = 120_000;
const CONNECT_TIMEOUT_MS = 5_000;
const CONNECTIONS_MAX = 64;
/** Receivers close idle connections after 5 s or later: ours go first, so that no request meets a closing one. */
const IDLE_TIMEOUT_MS = 4_000;
/** A receiver whose name has moved is followed after this, under steady traffic too. */
const CONNECTION_LIFE_MS = 60_000;
/** A short body is read so that the connection can be used again; beyond this the connection is given up instead. */
const BODY_BYTES_MAX = 16 * 1024;
const BODY_WAIT_MS = 1_000;

/** Makes the transport; nothing is looked up or opened before the first publish. */
export function webhookTransport(options: WebhookOptions): ReadyTransport {
  return new WebhookTransport(options);
}

class WebhookTransport implements ReadyTransport {
  readonly #url: URL;
  readonly #signer: Webhook | null;
  readonly #allowPrivate: boolean;
  readonly #timeoutMs: number;
  readonly #resolve: Resolve;
  readonly #now: () => number;
  readonly #pool: Pool;
  /** Judged at the newest send: where new connections go (W1). */
  #addresses: readonly LookupAddress[] = [];

  constructor(options: WebhookOptions) {
    this.#url = new URL(options.url);
    this.#signer = options.secret === null ? null : new Webhook(options.secret);
    this.#allowPrivate = options.allowPrivate;
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#resolve = options.resolve ?? ((hostname) => lookUpByName(hostname, { all: true }));
    this.#now = options.now ?? Date.now;
    this.#pool = new Pool(this.#url.origin, {
      connections: options.connectionsMax ?? CONNECTIONS_MAX,
      clientTtl: CONNECTION_LIFE_MS,
      keepAliveTimeout: IDLE_TIMEOUT_MS,
      keepAliveMaxTimeout: IDLE_TIMEOUT_MS,
      headersTimeout: this.#timeoutMs,
      bodyTimeout: BODY_WAIT_MS,
      connect: { timeout: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS, lookup: this.#lookup },
    });
  }

  async publish(event: TaskReadyCloudEvent, { signal }: { signal: AbortSignal }): Promise<void> {
    const expired = (): Error => new PublishError('timed-out', `no answer within ${this.#timeoutMs} ms`);
    await withDeadline({ signal, ms: this.#timeoutMs, expired }, async (bounded) => {
      try {
        this.#addresses = await this.#judgedAddresses(bounded);
        const answer = await this.#post(event, bounded);
        await discard(answer.body, bounded);
        this.#judge(answer);
      } catch (error) {
        throw publishErrorOf(error, bounded);
      }
    });
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async #judgedAddresses(signal: AbortSignal): Promise<readonly LookupAddress[]> {
    const { hostname } = this.#url;
    const literal = literalAddressOf(hostname);
    // A literal address never comes to `#lookup`; the connection goes to it as it stands here.
    const addresses = literal === null ? await this.#lookUp(hostname, signal) : [{ address: literal, family: 0 }];
    for (const { address } of addresses) {
      const kind = addressKindOf(address);
      if (kind === 'public' || (kind === 'private' && this.#allowPrivate)) continue;
      throw new PublishError(
        'address-refused',
        kind === 'private'
          ? 'the target is a private address, which this route does not allow'
          : 'the target is an address where no receiver may be',
      );
    }
    return addresses;
  }

  async #lookUp(hostname: string, signal: AbortSignal): Promise<readonly LookupAddress[]> {
    let addresses: readonly LookupAddress[];
    try {
      addresses = await abortable(this.#resolve(hostname), signal);
    } catch (error) {
      if (signal.aborted) throw error;
      throw new PublishError('name-not-resolved', `the target's name was not resolved${codeIn(error)}`, {
        cause: error,
      });
    }
    if (addresses.length === 0) throw new PublishError('name-not-resolved', "the target's name has no address");
    return addresses;
  }

  readonly #lookup: LookupFunction = (_hostname, options, callback) => {
    const [first] = this.#addresses;
    if (options.all === true) callback(null, [...this.#addresses]);
    else callback(null, first?.address ?? '', first?.family ?? 0);
  };

  async #post(event: TaskReadyCloudEvent, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    const body = JSON.stringify(event);
    const sentAt = new Date(this.#now());
    const headers: Record<string, string> = {
      'content-type': 'application/cloudevents+json',
      'user-agent': 'holdfast',
      'webhook-id': event.id,
      'webhook-timestamp': String(Math.floor(sentAt.getTime() / 1000)),
    };
    if (this.#signer !== null) headers['webhook-signature'] = this.#signer.sign(event.id, sentAt, body);
    const path = `${this.#url.pathname}${this.#url.search}`;
    return this.#pool.request({ path, method: 'POST', headers, body, signal });
  }

  /** Returns for an answer that took the event, and throws for any other. */
  #judge({ statusCode, headers }: Dispatcher.ResponseData): void {
    if (statusCode >= 200 && statusCode < 300) return;
    const header = headers['retry-after'];
    throw new PublishError(codeOfStatus(statusCode), `the receiver answered ${statusCode}`, {
      retryAfterSeconds: parseRetryAfter(typeof header === 'string' ? header : undefined, this.#now()),
    });
  }
}

/** docs/transports.md has this table, and why so few are permanent. */
function codeOfStatus(status: number): PublishErrorCode {
  switch (status) {
    case 410:
      return 'gone';
    case 413:
    case 415:
    case 422:
      return 'rejected';
    case 429:
      return 'throttled';
    case 408:
    case 425:
      return 'unavailable';
    default:
      if (status >= 500) return 'unavailable';
      if (status >= 400) return 'refused';
      return status >= 300 ? 'redirect' : 'bad-answer';
  }
}

/** The answer is known by its status: what becomes of its body changes nothing. */
async function discard(body: Dispatcher.ResponseData['body'], signal: AbortSignal): Promise<void> {
  await withDeadline({ signal, ms: BODY_WAIT_MS, expired: bodyGivenUp }, (bounded) =>
    body.dump({ limit: BODY_BYTES_MAX, signal: bounded }),
  ).catch(() => undefined);
}

function bodyGivenUp(): Error {
  return new Error('the body was given up');
}

/** Settles with the work, or with the abort. A look-up cannot be stopped, so it is left to itself. */
function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

function publishErrorOf(error: unknown, signal: AbortSignal): PublishError {
  if (error instanceof PublishError) return error;
  if (signal.aborted) {
    const reason: unknown = signal.reason;
    if (reason instanceof PublishError) return reason;
    return new PublishError('aborted', 'the publish was stopped', { cause: reason });
  }
  const [code, what] = meaningOf(error);
  return new PublishError(code, `${what}${codeIn(error)}`, { cause: error });
}

const NO_CONNECTION: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'ETIMEDOUT',
  'EACCES',
  'EPERM',
  'EMFILE',
  'UND_ERR_CONNECT_TIMEOUT',
]);

function meaningOf(error: unknown): [PublishErrorCode, string] {
  const code = errorCodeOf(error);
  if (NO_CONNECTION.has(code)) return ['connect-failed', 'no connection to the receiver'];
  if (code === 'UND_ERR_HEADERS_TIMEOUT') return ['timed-out', 'the receiver did not answer in time'];
  if (error instanceof errors.HTTPParserError || code === 'UND_ERR_HEADERS_OVERFLOW') {
    return ['bad-answer', 'what the receiver answered is not HTTP'];
  }
  if (/CERT|TLS|SSL|^EPROTO$|^UNABLE_TO_/.test(code)) return ['tls-failed', 'no secure connection to the receiver'];
  return ['connection-lost', 'the connection ended before the answer'];
}

function errorCodeOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' && /^[A-Z0-9_]{1,64}$/.test(code) ? code : '';
}

function codeIn(error: unknown): string {
  const code = errorCodeOf(error);
  return code === '' ? '' : ` (${code})`;
}
