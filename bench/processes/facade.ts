/** The HTTP facade over a scheduler of its own, as `src/run.ts` starts it; no keys, and a log of errors alone. */
import { pino } from 'pino';
import { createApp } from '../../src/facade/app.ts';
import { listen } from '../../src/facade/listen.ts';
import { connectClient } from '../../src/temporal/connection.ts';
import { countCalls } from '../call-counter.ts';
import { createScheduler, NAMESPACE } from '../holdfast.ts';
import { serve } from './serve.ts';

await serve(async ({ temporalAddress }) => {
  const log = pino({ level: 'error' });
  const connection = await connectClient({ namespace: NAMESPACE, options: { address: temporalAddress } });
  const counter = countCalls(connection);
  const app = createApp({ scheduler: createScheduler(connection, log), log, keyRing: null });
  const listening = await listen(app, { host: '127.0.0.1', port: 0 });
  return {
    url: listening.url,
    calls: () => counter.take(),
    stop: async () => {
      await listening.close();
      await connection.close();
    },
  };
});
