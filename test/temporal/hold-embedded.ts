/**
 * A program that the tests start, kill and interrupt: it holds an embedded server, and tells about it in lines of JSON.
 * Argument: the data folder. It does not end on Ctrl-C: it reports it.
 */
import { startEmbeddedTemporal } from '../../src/temporal/embedded.ts';
import { silentLog } from '../support/silent-log.ts';

const [dataDir = ''] = process.argv.slice(2);
const tell = (line: object): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`);
};

process.on('SIGINT', () => {
  tell({ kind: 'interrupted' });
});
const temporal = await startEmbeddedTemporal({ dataDir, port: 0, uiPort: 0, log: silentLog });
tell({ kind: 'up', address: temporal.address, serverPid: temporal.pid });
