/** Holdfast's workers, started as `src/run.ts` starts them. */
import { pino } from 'pino';
import { createActivities } from '../../activities/index.ts';
import { taskPolicyOf } from '../../src/config/index.ts';
import { connectWorker } from '../../src/temporal/connection.ts';
import { installRuntime, startWorkers } from '../../src/temporal/worker.ts';
import { createTransports } from '../../src/transports/index.ts';
import { benchConfig, NAMESPACE } from '../holdfast.ts';
import { NO_CALLS, serve } from './serve.ts';

await serve(async ({ temporalAddress, receiverUrl }) => {
  const log = pino({ level: 'error' });
  installRuntime(log);
  const config = benchConfig();
  const route = { transport: 'webhook', url: receiverUrl, secret: null, allowPrivate: true } as const;
  const transports = createTransports({ routes: { default: route } });
  const connection = await connectWorker({ namespace: NAMESPACE, options: { address: temporalAddress } });
  const workers = await startWorkers({
    connection,
    namespace: NAMESPACE,
    taskQueue: config.taskQueue,
    deliveryTaskQueue: taskPolicyOf(config).deliveryTaskQueue,
    publishConcurrency: config.policy.publish.concurrency,
    activities: createActivities({
      transports,
      // For links that nobody follows.
      publicUrl: 'http://127.0.0.1:1',
      log,
      concurrencyPerCustomer: config.policy.publish.concurrencyPerCustomer,
    }),
  });
  return {
    url: null,
    calls: () => NO_CALLS,
    stop: async () => {
      await workers.stop();
      await transports.close();
      await connection.close();
    },
  };
});
