/** The bare form's workers: the same settings as Holdfast's, since the same code starts them. */
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { pino } from 'pino';
import { connectWorker } from '../../src/temporal/connection.ts';
import { installRuntime, startWorkers } from '../../src/temporal/worker.ts';
import { createBareActivities } from '../bare/activities.ts';
import { deliveryTaskQueueOf } from '../bare/words.ts';
import { benchConfig, NAMESPACE, TASK_QUEUE } from '../holdfast.ts';
import { NO_CALLS, serve } from './serve.ts';

await serve(async ({ temporalAddress, receiverUrl }) => {
  installRuntime(pino({ level: 'error' }));
  const workflowBundle = await bundleWorkflowCode({
    workflowsPath: fileURLToPath(new URL('../bare/workflow.ts', import.meta.url)),
    logger: new DefaultLogger('ERROR'),
  });
  const connection = await connectWorker({ namespace: NAMESPACE, options: { address: temporalAddress } });
  const workers = await startWorkers({
    connection,
    namespace: NAMESPACE,
    taskQueue: TASK_QUEUE.bare,
    deliveryTaskQueue: deliveryTaskQueueOf(TASK_QUEUE.bare),
    publishConcurrency: benchConfig().policy.publish.concurrency,
    workflowBundle,
    activities: createBareActivities(receiverUrl),
  });
  return {
    url: null,
    calls: () => NO_CALLS,
    stop: async () => {
      await workers.stop();
      await connection.close();
    },
  };
});
