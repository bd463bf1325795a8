import type { RouteConfig } from '../config/config.ts';
import type { ReadyTransport } from './port.ts';

/** The queue whose route serves every queue that has none. */
const DEFAULT_QUEUE = 'default';

export interface Transports {
  /** The transport of a queue's route, or of the route `default`; null: there is neither. */
  for(queue: string): ReadyTransport | null;
  /** Ends all that were used. */
  close(): Promise<void>;
}

/** One transport for each route. Its library is loaded, and anything opened, by the first publish. */
export function createTransports(config: { readonly routes: Readonly<Record<string, RouteConfig>> }): Transports {
  const transports = new Map(
    Object.entries(config.routes).map(
      ([queue, route]) => [queue, lazy(() => LOADERS[route.transport](route))] as const,
    ),
  );
  return {
    for: (queue) => transports.get(queue) ?? transports.get(DEFAULT_QUEUE) ?? null,
    close: async () => {
      await Promise.all([...transports.values()].map((transport) => transport.close()));
    },
  };
}

/** Every transport there is, each behind an import of its own. */
const LOADERS = {
  webhook: async ({ url, secret, allowPrivate }) => {
    const { webhookTransport } = await import('./webhook.ts');
    return webhookTransport({ url, secret: secret?.reveal() ?? null, allowPrivate });
  },
} as const satisfies Record<RouteConfig['transport'], (route: RouteConfig) => Promise<ReadyTransport>>;

function lazy(make: () => Promise<ReadyTransport>): ReadyTransport {
  let made: Promise<ReadyTransport> | null = null;
  return {
    publish: async (event, options) => {
      made ??= make();
      await (await made).publish(event, options);
    },
    close: async () => {
      await (await made)?.close();
    },
  };
}
