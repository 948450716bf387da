export { freePorts } from '../../src/local/free-ports.ts'
