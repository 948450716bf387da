import { test } from 'tap'
import { killDatabase } from '../../support/database-kills.ts'

test('replicas survive twenty killed databases', (t) => killDatabase(t, 20))
