export { freePorts } from '../../src/cli/free-ports.ts'
