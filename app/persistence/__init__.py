"""The only place that speaks SQL. Other packages get these adapters through their constructors."""
