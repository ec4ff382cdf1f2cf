module get_table

go 1.19
