import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.InternalRow.FieldGetter;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.RowType;

/**
 * Reads a table in one thread, as an engine does: each row's fields are got once.
 *
 * Arguments: warehouse, database, table, repeats, then for each case its name and, as KEY=VALUE,
 * columns, low, high, incremental. Prints a line a run: name, rows, seconds of the clock, seconds of
 * the processor.
 */
public class ReadingJava {

    public static void main(String[] args) throws Exception {
        Options options = new Options();
        options.set("warehouse", args[0]);
        options.set("cache-enabled", "false");
        Table table =
                CatalogFactory.createCatalog(CatalogContext.create(options))
                        .getTable(Identifier.create(args[1], args[2]));
        int repeats = Integer.parseInt(args[3]);
        for (int at = 4; at < args.length; at++) {
            String[] parts = args[at].split(";");
            for (int run = 0; run < repeats; run++) {
                long wall = System.nanoTime();
                long cpu = cpuNanos();
                long rows = read(table, parts);
                System.out.printf(
                        "%s %d %.6f %.6f%n",
                        parts[0], rows,
                        (System.nanoTime() - wall) / 1e9, (cpuNanos() - cpu) / 1e9);
            }
        }
    }

    private static long read(Table table, String[] parts) throws Exception {
        RowType type = table.rowType();
        PredicateBuilder conditions = new PredicateBuilder(type);
        List<Predicate> all = new ArrayList<>();
        int[] columns = null;
        for (int i = 1; i < parts.length; i++) {
            String[] pair = parts[i].split("=", 2);
            switch (pair[0]) {
                case "columns":
                    String[] names = pair[1].split(",");
                    columns = new int[names.length];
                    for (int n = 0; n < names.length; n++) {
                        columns[n] = type.getFieldNames().indexOf(names[n]);
                    }
                    break;
                case "low":
                    all.add(conditions.greaterOrEqual(0, Long.parseLong(pair[1])));
                    break;
                case "high":
                    all.add(conditions.lessOrEqual(0, Long.parseLong(pair[1])));
                    break;
                case "equal":
                    all.add(conditions.equal(0, Long.parseLong(pair[1])));
                    break;
                default:
                    table = table.copy(Map.of("incremental-between", pair[1]));
            }
        }
        ReadBuilder builder = table.newReadBuilder();
        if (columns != null) {
            builder.withProjection(columns);
        }
        if (!all.isEmpty()) {
            builder.withFilter(PredicateBuilder.and(all));
        }
        RowType read = builder.readType();
        FieldGetter[] getters = new FieldGetter[read.getFieldCount()];
        for (int i = 0; i < getters.length; i++) {
            getters[i] = InternalRow.createFieldGetter(read.getTypeAt(i), i);
        }
        long[] rows = new long[2];
        try (RecordReader<InternalRow> reader =
                builder.newRead()
                        .withIOManager(IOManager.create(System.getProperty("java.io.tmpdir")))
                        .executeFilter()
                        .createReader(builder.newScan().plan())) {
            reader.forEachRemaining(
                    row -> {
                        rows[0]++;
                        for (FieldGetter getter : getters) {
                            Object value = getter.getFieldOrNull(row);
                            rows[1] += value == null ? 0 : 1;
                        }
                    });
        }
        return rows[0];
    }

    private static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean)
                        ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }
}
