export { loadConfig, taskPolicyOf, type Config } from './config.ts';
export { ConfigError } from './problems.ts';
export { Secret } from './secret.ts';
