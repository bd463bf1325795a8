import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ReceivedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** How the receiver answers a request that it has read. */
export type Answer = (response: ServerResponse, request: IncomingMessage) => void;

export const answer =
  (status: number, headers: Record<string, string> = {}, body = ''): Answer =>
  (response) => {
    response.writeHead(status, headers).end(body);
  };

/** A real HTTP server on loopback that keeps what it was sent and answers as the test says. */
export class Receiver {
  readonly requests: ReceivedRequest[] = [];
  respond: Answer = answer(204);
  #server: Server;
  #port = 0;
  readonly #waiters: Array<{ count: number; resolve: () => void }> = [];

  private constructor() {
    this.#server = this.#create();
  }

  static async start(): Promise<Receiver> {
    const receiver = new Receiver();
    await receiver.restart();
    return receiver;
  }

  get port(): number {
    return this.#port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/ready?from=holdfast`;
  }

  untilReceived(count: number): Promise<void> {
    if (this.requests.length >= count) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiters.push({ count, resolve });
    });
  }

  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  /** Listens where it did before; the first time on a free port. */
  async restart(): Promise<void> {
    this.#server = this.#create();
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  #create(): Server {
    return createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const { method = '', url = '', headers } = request;
        this.requests.push({ method, url, headers, body: Buffer.concat(chunks).toString('utf8') });
        for (const waiter of this.#waiters) if (this.requests.length >= waiter.count) waiter.resolve();
        this.respond(response, request);
      });
    });
  }
}
