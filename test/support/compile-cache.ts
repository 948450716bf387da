/** For `node --import`: test files load the same modules, and should not each compile them. */
import { cacheCompiled } from '../../src/cli/compile-cache.ts'

cacheCompiled()
