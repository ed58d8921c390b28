import org.apache.paimon.table.CatalogEnvironment;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaValidation;
import org.apache.paimon.schema.TableSchema;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;

/** Whether Paimon opens tables of some definitions; no file is made. */
final class Definitions {
    private Definitions() {}

    /** Adds null for a definition that is right, else what Paimon says against it. */
    static void judge(Schema definition, ArrayNode problems) {
        try {
            TableSchema schema = TableSchema.create(0, definition);
            SchemaValidation.validateTableSchema(schema);
            FileStoreTable table =
                    FileStoreTableFactory.create(
                            LocalFileIO.create(),
                            new Path("/nowhere/db.db/t"),
                            schema,
                            CatalogEnvironment.empty());
            table.store().newScan();
            table.newRead();
            problems.addNull();
        } catch (Exception refused) {
            Throwable root = refused;
            while (root.getCause() != null) {
                root = root.getCause();
            }
            problems.add(root.getClass().getSimpleName() + ": " + root.getMessage());
        }
    }
}
